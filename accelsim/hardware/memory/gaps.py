"""From the timing parameters of a standard to the distances between commands.

Written after the timing tables of JESD79-4 and -5 (DDR4, DDR5), JESD209-4 and -5 (LPDDR4, LPDDR5), JESD235 and JESD238
(HBM2, HBM3) and JESD250 (GDDR6), in the form that Ramulator 2.1 gives them. Standards count from the cycle at which a
command has been received; here commands are known by the cycle at which they start. So a first command of n cycles adds
n - 1 and a second one takes n - 1 off.
"""

from __future__ import annotations

import numpy as np

from accelsim.hardware.memory.device import Gap, IntColumn
from accelsim.hardware.memory.template import MemoryTemplate


def command_gaps(template: MemoryTemplate) -> IntColumn:
    """The table of :class:`Gap`, in cycles of the controller (half clocks where the template says so)."""
    t = template.timing
    scale = cycles_per_clock(template)
    read_burst, write_burst = t.tCL + t.tBL, t.tCWL + t.tBL
    turn = t.tRTW if t.tRTW is not None else read_burst + 2 - t.tCWL
    if template.controller == "dramsim3":
        turn = t.tRTW if t.tRTW is not None else read_burst + t.tCS - t.tCWL
    precharge_all = t.tRP if t.tRPab is None else t.tRPab
    same_rank = max(t.tBL, t.tCCD_S)
    other_stack = t.tCCD_R if t.tCCD_R is not None else same_rank
    on_one_bus = template.organization.pseudo_channels == 1  # pseudo-channels have data pins of their own
    per_bank = t.tRFCpb or 0
    clocks = {
        Gap.ACT_ACT: t.tRC,
        Gap.ACT_ACT_S: t.tRRD_S,
        Gap.ACT_ACT_L: t.tRRD_L,
        Gap.FOUR_ACT: t.tFAW,
        Gap.MANY_ACT: t.t32AW,
        Gap.ACT_RD: t.tRCDRD,
        Gap.ACT_WR: t.tRCDWR,
        Gap.ACT_PRE: t.tRAS,
        Gap.ACT_REF: t.tRC,
        Gap.ACT_REFB_S: t.tRRD_S if t.tRREFD and t.tPBR2PBR is None else 0,  # JESD235; JESD209 has none
        Gap.RD_RD_S: same_rank,
        Gap.RD_RD_L: max(t.tBL, t.tCCD_L),
        Gap.RD_RD_STACK: other_stack,
        Gap.RD_RD_RANK: t.tBL + t.tCS if on_one_bus else 0,
        Gap.RD_WR: turn,
        Gap.RD_WR_RANK: read_burst + t.tCS - t.tCWL if on_one_bus else 0,
        Gap.RD_PRE: t.tRTP,
        Gap.WR_WR_S: same_rank,
        Gap.WR_WR_L: max(t.tBL, t.tCCD_L if t.tCCD_L_WR is None else t.tCCD_L_WR),
        Gap.WR_WR_RANK: t.tBL if on_one_bus else 0,
        Gap.WR_RD_S: write_burst + t.tWTR_S,
        Gap.WR_RD_L: t.tCWL + (t.tBL if t.tBL_max is None else t.tBL_max) + t.tWTR_L,
        Gap.WR_RD_RANK: write_burst + t.tCS - t.tCL if on_one_bus else 0,
        Gap.WR_PRE: write_burst + t.tWR,
        Gap.PRE_ACT: t.tRP,
        Gap.PREA_ACT: precharge_all,
        Gap.PRE_PRE: t.tPPD,
        Gap.PRE_REF: t.tRP,
        Gap.REF_ACT: t.tRFC,
        Gap.REF_PRE: t.tRFC,
        Gap.REFB_ACT: per_bank,
        Gap.REFB_ACT_S: t.tRREFD,
        Gap.REFB_REFB: t.tRREFD if t.tPBR2PBR is None else t.tPBR2PBR,
        Gap.READ_RETURN: read_burst,
    }
    if template.controller in ("ramulator", "ramulator_row_hit") and on_one_bus:
        clocks[Gap.RD_WR_RANK] = t.tBL + t.tCS  # as that tool has it; the data of the two may meet on the bus
    gaps = np.zeros(len(Gap), dtype=np.int64)
    for gap, clock_cycles in clocks.items():
        gaps[gap] = max(0, clock_cycles * scale + _length_of_first(gap, template) - _length_of_second(gap, template))
    gaps[Gap.READ_RETURN] = read_burst * scale
    gaps[Gap.ROW_BUS] = t.activate_length
    return gaps


def cycles_per_clock(template: MemoryTemplate) -> int:
    """Cycles of the controller in one clock: 2 where commands may start on half clocks."""
    return 2 if template.organization.half_cycles else 1


def _lengths(template: MemoryTemplate) -> dict[str, int]:
    """Cycles for which each command holds its bus. ``activate_length`` is given in half clocks where there are any."""
    scale = cycles_per_clock(template)
    return {"ACT": template.timing.activate_length, "RD": scale, "WR": scale}


def _length_of_first(gap: Gap, template: MemoryTemplate) -> int:
    first = "ACT" if gap in (Gap.FOUR_ACT, Gap.MANY_ACT) else gap.name.split("_")[0]
    return _lengths(template).get(first, 1) - 1


def _length_of_second(gap: Gap, template: MemoryTemplate) -> int:
    if gap in (Gap.READ_RETURN, Gap.ROW_BUS):
        return 0
    second = "ACT" if gap in (Gap.FOUR_ACT, Gap.MANY_ACT) else gap.name.split("_")[1]
    return _lengths(template).get(second, 1) - 1
