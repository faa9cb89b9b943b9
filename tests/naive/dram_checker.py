"""Says whether a record of DRAM commands keeps the timing rules of its standard.

Independent of the controller: it reads the parameters of the template as the standard defines them, keeps the whole
history, and looks at every pair of commands that a rule names. A command of n clocks has been received n - 1 clocks
after it starts; distances are counted between receptions.
"""

from __future__ import annotations

from accelsim.hardware.memory.device import Command
from accelsim.hardware.memory.dram import DramMemory

ACT, PRE, PREA, RD, WR, REF, REFB = (
    Command.ACT,
    Command.PRE,
    Command.PREA,
    Command.RD,
    Command.WR,
    Command.REF,
    Command.REFB,
)


def violations(memory: DramMemory, commands) -> list[str]:
    """One sentence for every rule that is broken; empty if the record is legal.

    ``commands``: rows of cycle, command, rank (of all channels), bank (of all channels, or -1), row.
    """
    template, t = memory.template, memory.template.timing
    scale = memory.cycles_per_clock
    dual = template.organization.command_bus == "split"
    ranks_per_channel, banks_per_rank = memory.ranks_per_channel, memory.banks_per_rank
    banks_per_group = template.organization.banks_per_group
    banks_per_stack = banks_per_group * template.organization.bank_groups
    length = {ACT: t.activate_length, RD: scale, WR: scale}
    open_row: dict[int, int] = {}
    last: dict[tuple, int] = {}  # (command, scope, which) -> cycle of reception
    activations: dict[int, list[int]] = {}
    bus_free: dict[tuple, int] = {}
    found: list[str] = []
    turn = t.tRTW if t.tRTW is not None else t.tCL + t.tBL + 2 - t.tCWL
    if template.controller == "dramsim3" and t.tRTW is None:
        turn = t.tCL + t.tBL + t.tCS - t.tCWL

    for number, (cycle, kind, rank, bank, row) in enumerate(commands.tolist()):
        command = Command(kind)
        now = cycle + length.get(command, 1) - 1
        channel = rank // ranks_per_channel
        group, stack = bank // banks_per_group, bank // banks_per_stack

        def apart(before, scope, which, clocks, now=now, number=number, command=command):
            since = last.get((before, scope, which))
            if since is not None and now - since < clocks * scale:
                found.append(f"command {number} {command.name}: {now - since} cycles after {before.name} of the same "
                             f"{scope}, {clocks * scale} needed")  # fmt: skip

        lane = (channel, "column" if dual and command in (RD, WR) else "row" if dual else "all")
        if cycle < bus_free.get(lane, 0):
            found.append(f"command {number} {command.name}: the command bus is busy until {bus_free[lane]}")
        bus_free[lane] = cycle + length.get(command, 1)
        if scale == 2 and cycle % 2 and command not in (PRE, PREA):
            found.append(f"command {number} {command.name}: starts on the second half of a clock")

        if command is ACT:
            if bank in open_row:
                found.append(f"command {number} ACT: bank {bank} is open")
            apart(ACT, "bank", bank, t.tRC)
            apart(ACT, "group", group, t.tRRD_L)
            apart(ACT, "rank", rank, t.tRRD_S)
            apart(PRE, "bank", bank, t.tRP)
            apart(PREA, "rank", rank, t.tRPab or t.tRP)
            apart(REF, "rank", rank, t.tRFC)
            apart(REFB, "bank", bank, t.tRFCpb or 0)
            apart(REFB, "rank", rank, t.tRREFD)
            recent = activations.setdefault(rank, [])
            if len(recent) >= 4 and now - recent[-4] < t.tFAW * scale:
                found.append(f"command {number} ACT: the fifth within tFAW of rank {rank}")
            if t.t32AW and len(recent) >= 32 and now - recent[-32] < t.t32AW * scale:
                found.append(f"command {number} ACT: the 33rd within t32AW of rank {rank}")
            recent.append(now)
            open_row[bank] = row
        elif command in (PRE, PREA):
            banks = [bank] if command is PRE else range(rank * banks_per_rank, (rank + 1) * banks_per_rank)
            if command is PRE and bank not in open_row:
                found.append(f"command {number} PRE: bank {bank} is closed")
            for one in banks:
                apart(ACT, "bank", one, t.tRAS)
                apart(RD, "bank", one, t.tRTP)
                apart(WR, "bank", one, t.tCWL + t.tBL + t.tWR)
                open_row.pop(one, None)
            apart(PRE, "rank", rank, t.tPPD)
            apart(PREA, "rank", rank, t.tPPD)
        elif command in (RD, WR):
            if open_row.get(bank) != row:
                found.append(f"command {number} {command.name}: row {row} of bank {bank} is not open")
            apart(ACT, "bank", bank, t.tRCDRD if command is RD else t.tRCDWR)
            apart(command, "group", group, t.tCCD_L_WR or t.tCCD_L if command is WR else t.tCCD_L)
            apart(command, "rank", rank, max(t.tCCD_S, t.tBL))
            if command is RD:
                apart(WR, "group", group, t.tCWL + (t.tBL_max or t.tBL) + t.tWTR_L)
                apart(WR, "rank", rank, t.tCWL + t.tBL + t.tWTR_S)
            else:
                apart(RD, "rank", rank, turn)
            for other in range(
                rank * banks_per_rank // banks_per_stack, (rank + 1) * banks_per_rank // banks_per_stack
            ):
                if other != stack and t.tCCD_R and command is RD:
                    apart(command, "stack", other, t.tCCD_R)
            data = now + (t.tCL if command is RD else t.tCWL) * scale
            pins = (rank if template.organization.pseudo_channels > 1 else channel, "data")
            if data < bus_free.get(pins, 0):
                found.append(f"command {number} {command.name}: its data meets other data on the bus")
            bus_free[pins] = data + t.tBL * scale
        elif command is REF:
            if any(one // banks_per_rank == rank for one in open_row):
                found.append(f"command {number} REF: a bank of rank {rank} is open")
            for one in range(rank * banks_per_rank, (rank + 1) * banks_per_rank):
                apart(ACT, "bank", one, t.tRC)
                apart(PRE, "bank", one, t.tRP)
            apart(PREA, "rank", rank, t.tRP)
            apart(REF, "rank", rank, t.tRFC)
        elif command is REFB:
            if bank in open_row:
                found.append(f"command {number} REFB: bank {bank} is open")
            apart(ACT, "bank", bank, t.tRC)
            apart(PRE, "bank", bank, t.tRP)
            apart(REFB, "bank", bank, t.tRFCpb)
            apart(REFB, "rank", rank, t.tPBR2PBR or t.tRREFD)
        for scope, which in (("bank", bank), ("group", group), ("stack", stack), ("rank", rank)):
            if bank >= 0 or scope == "rank":
                last[command, scope, which] = now
    return found
