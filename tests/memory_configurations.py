"""The configurations of the reference runs, as memories of ours and what of them is set otherwise.

Sources: the configuration files and parameters of Ramulator 2.1 (commit c5b1c3a) and DRAMsim3 (commit 2981759). The
traces go beyond the addresses of some of them, so those get more rows; which row it is makes no difference.
"""

from __future__ import annotations

from accelsim.hardware.memory.dram import DramMemory
from accelsim.library import load_memory

RAMULATOR = ("controller=ramulator", "address_map=mop4clxor")
MORE_ROWS = "organization.rows=1048576"


def _clocks(**cycles: int) -> tuple[str, ...]:
    return tuple(f"timing.{name}={value} cycles" for name, value in cycles.items())


DDR4 = ("ddr4_3200", "controller=dramsim3", *_clocks(tRFC=560, tCS=1))
# HBM2_8Gb_x128.ini: a legacy 128-bit channel, 64 bytes an access; rows of 32 accesses; the default tRTP, for its key is
# not one that the tool reads.
HBM2 = (
    "hbm2_2000",
    "controller=dramsim3",
    "address_map=rorabgbachco",
    MORE_ROWS,
    "organization.pseudo_channels=1",
    "organization.access_bytes=64 B",
    "organization.row_bytes=2 KiB",
    *_clocks(tCWL=4, tRCDWR=14, tCCD_L=2, tRRD_L=6, tFAW=30, tRFC=260, tRTP=5, tCS=1, activate_length=1),
)
# LPDDR4_8Gb_x16_2400.ini: four devices in step, 128 bytes an access, two bank groups.
LPDDR4 = (
    "lpddr4_3200",
    "controller=dramsim3",
    "address_map=rochrababgco",
    MORE_ROWS,
    "organization.bank_groups=2",
    "organization.banks_per_group=4",
    "organization.row_bytes=8 KiB",
    "organization.access_bytes=128 B",
    *_clocks(tCL=17, tCWL=14, tRCDRD=15, tRCDWR=15, tRP=15, tRPab=15, tRAS=32, tRC=47, tCCD_S=4, tCCD_L=8, tRRD_S=8),
    *_clocks(tRRD_L=8, tFAW=32, tWTR_S=8, tWTR_L=16, tRTP=12, tWR=30, tCS=1, tPPD=2, tRFC=392, tREFI=8660),
    *_clocks(activate_length=1),
)
# GDDR6_8Gb_x16.ini: bank groups off, a burst counted as one clock, 256 bytes an access, 128 accesses a row; the default
# tRTP, as with HBM2.
GDDR6 = (
    "gddr6_14000",
    "controller=dramsim3",
    "address_map=rochrababgco",
    MORE_ROWS,
    "organization.bank_groups=1",
    "organization.banks_per_group=16",
    "organization.row_bytes=32 KiB",
    "organization.access_bytes=256 B",
    *_clocks(tBL=1, tCL=24, tCWL=16, tRCDRD=24, tRCDWR=20, tRP=24, tRAS=54, tRC=78, tCCD_S=3, tCCD_L=3, tRRD_S=9),
    *_clocks(tRRD_L=9, tFAW=32, t32AW=420, tWTR_S=7, tWTR_L=7, tRTP=5, tWR=16, tRTW=10, tPPD=2, tRFC=126, tREFI=11862),
    *_clocks(tCS=1),
)

CONFIGURATIONS: dict[str, tuple[str, ...]] = {
    "r2_ddr4_ch1_mop4": ("ddr4_3200", *RAMULATOR),
    "r2_ddr4_ch1_co": ("ddr4_3200", "controller=ramulator", "address_map=column_low"),
    "r2_ddr4_ch1_mop4_rowhit": ("ddr4_3200", "controller=ramulator_row_hit", "address_map=mop4clxor"),
    "r2_ddr4_ch1_mop4_noref": ("ddr4_3200", *RAMULATOR, "refresh=off"),
    "r2_ddr4_ch1_mop4_rk2": ("ddr4_3200", *RAMULATOR, "ranks=2"),
    "r2_ddr4_ch2_mop4": ("ddr4_3200", *RAMULATOR, "channels=2"),
    "r2_ddr4_ch2_co": ("ddr4_3200", "controller=ramulator", "address_map=column_low", "channels=2"),
    "r2_hbm2_ch1_mop4": ("hbm2_2000", *RAMULATOR),
    "r2_hbm3_ch1_mop4": ("hbm3_6400", *RAMULATOR, "organization.rows=65536"),
    "r2_gddr6_ch1_mop4": ("gddr6_14000", *RAMULATOR, "organization.rows=65536"),
    "r2_lpddr5_ch1_mop4": ("lpddr5_6400", *RAMULATOR),
    "r2_lpddr5_ch1_mop4_refpb": ("lpddr5_6400", *RAMULATOR, "refresh=per_bank"),
    "d3_ddr4_ch1": (*DDR4, "address_map=rochrababgco"),
    "d3_ddr4_ch1_bglow": (*DDR4, "address_map=bank_group_low"),
    "d3_ddr4_ch1_bglow_rk2": (*DDR4, "address_map=rorabachcobg", "ranks=2"),
    "d3_ddr4_ch2_bglow": (*DDR4, "address_map=rorabacochbg", "channels=2"),
    "d3_hbm2_ch1": HBM2,
    "d3_hbm2_ch8": (*HBM2, "channels=8"),
    "d3_lpddr4_ch1": LPDDR4,
    "d3_gddr6_ch1": GDDR6,
}


def memory_of(configuration: str, *settings: str) -> DramMemory:
    """The memory of a configuration."""
    name, *own = CONFIGURATIONS[configuration]
    return load_memory(name, [*own, *settings])
