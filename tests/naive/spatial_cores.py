"""The tile mapper of the SoMa paper in plain Python, one line a sentence of its description, no speed intended."""

from __future__ import annotations

from typing import NamedTuple


class Machine(NamedTuple):
    """Sizes in bytes, bandwidth in bytes per cycle, costs in pJ per byte (``mac`` in pJ per MAC)."""

    rows: int
    columns: int
    vector: int
    lanes: int
    al0: int
    wl0: int
    ol0: int
    bandwidth: int
    costs: dict[str, float]
    attention_is_free: bool = True


class Best(NamedTuple):
    cycles: int
    energy_pj: float


def up(a: int, b: int) -> int:
    return -(-a // b)


def splits(machine: Machine) -> list[dict[str, int]]:
    pairs = [("C", "K"), ("C", "B"), ("B", "K"), ("C", "W"), ("H", "K"), ("H", "W")]
    return [dict.fromkeys("BCKHW", 1) | {a: machine.rows, b: machine.columns} for a, b in pairs]


def kept(n: int, kernel: int, window: int, stride: int) -> int:
    """Input rows for n positions: all from the first to the last, or, where taps leave gaps, no more than they read."""
    return min((n - 1) * stride + window, n * kernel if window > kernel else 1 << 60)


def block_sizes(a, o, R, S, wH, wW, sH, sW, TH, TW):  # type: ignore[no-untyped-def]
    """All (w1, h1) worth trying: output columns and rows that one pass keeps in the input and output buffers."""
    last = None
    for w1 in range(min(o, TW), 0, -1):
        if kept(w1, S, wW, sW) * kept(1, R, wH, sH) > a:
            continue
        h1 = max(h for h in range(1, min(o // w1, TH) + 1) if kept(w1, S, wW, sW) * kept(h, R, wH, sH) <= a)
        if h1 != last:
            yield w1, h1
        last = h1


def best_mapping(machine: Machine, B, C, K, K_group, H, W, R, S, sH, sW, groups, attention, dH=1, dW=1) -> Best | None:  # type: ignore[no-untyped-def]
    """Cheapest energy x time over all mappings of one tile, or None when nothing fits."""
    n_groups = 1
    if groups > 1:
        C = C // groups
        if K_group < K:
            n_groups, K = up(K, K_group), K_group
    if attention:
        n_groups, B = n_groups * B, 1
    d, passes = 1, n_groups
    if n_groups > 1 and min(machine.vector // C, machine.lanes // K) > 1:
        d = min(machine.vector // C, machine.lanes // K, n_groups)
        passes = up(n_groups, d)

    cost = machine.costs
    best = None
    wH, wW = (R - 1) * dH + 1, (S - 1) * dW + 1  # what a kernel covers of the input
    for p in splits(machine):
        TC, TK = up(C, machine.vector * p["C"]), up(K, machine.lanes * p["K"])
        TH, TW, TB = up(H, p["H"]), up(W, p["W"]), up(B, p["B"])
        comp = TC * TK * TH * TW * TB * R * S
        a, o = machine.al0 // machine.vector // TC, machine.ol0 // machine.lanes
        k_max = machine.wl0 // machine.vector // (R * S * TC)
        if o == 0 or k_max == 0 or kept(1, R, wH, sH) * kept(1, S, wW, sW) > a:
            continue
        NK = up(TK, min(TK, k_max))
        for w1, h1 in block_sizes(a, o, R, S, wH, wW, sH, sW, TH, TW):
            NH, NW = up(TH, h1), up(TW, w1)
            ops, fil, ofm = B * C * K * R * S * H * W, R * S * C * K, B * H * W * K
            wdup = p["H"] * p["W"] * p["B"]
            in_rows = H + (wH - sH) * ((1 if NW == 1 else NH) * p["H"] - 1)
            in_columns = W + (wW - sW) * (p["W"] - 1)
            gbuf_reads = in_rows * in_columns * C * B * NK + fil
            ol0_writes = ops // C * TC * p["C"]
            accesses = {
                "gbuf_read": gbuf_reads,
                "gbuf_write": ofm,
                "al0_read": ops // K * TK * p["K"],
                "al0_write": in_rows * in_columns * C * B * NK * p["K"],
                "wl0_read": fil * NW * NH * TB * wdup,
                "wl0_write": fil * wdup,
                "ol0_read": ol0_writes + p["C"] * ofm,
                "ol0_write": ol0_writes,
                "ol2_read": ofm,
                "ol2_write": ofm,
            }
            parts = [[f"{name}_read", f"{name}_write"] for name in ("gbuf", "al0")]
            if any(sum(accesses[name] * cost[name] for name in part) < 0 for part in parts):
                continue  # fewer than no bytes
            time = comp
            if not (attention and machine.attention_is_free):
                time = max(comp, up(gbuf_reads * d, machine.bandwidth))
            time *= passes
            energy = n_groups * (cost["mac"] * ops + sum(n * cost[name] for name, n in accesses.items()))
            if best is None or energy * time < best.energy_pj * best.cycles:
                best = Best(time, energy)
    return best


# SoMa's two machines, with the rounded costs of its table of SRAM energies (six decimals).
_NAMES = ("mac", "al0_read", "al0_write", "wl0_read", "wl0_write", "ol0_read", "ol0_write", "ol2_read", "ol2_write",
          "gbuf_read", "gbuf_write")  # fmt: skip
_EDGE = (0.018, 2.248710, 0.320850, 0.512040, 0.505890, 0.284592, 0.371712, 0.537486, 0.695652, 1.525885, 1.644653)
_CLOUD = (0.018, 4.221459, 0.372511, 0.381459, 0.372511, 0.344356, 0.449772, 1.686861, 2.183255, 4.788881, 5.161625)
EDGE = Machine(4, 4, 16, 32, 16 << 10, 32 << 10, 8 << 10, 256, dict(zip(_NAMES, _EDGE, strict=True)))
CLOUD = Machine(4, 4, 64, 64, 64 << 10, 256 << 10, 16 << 10, 512, dict(zip(_NAMES, _CLOUD, strict=True)))
