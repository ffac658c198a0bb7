from __future__ import annotations

import struct

from steward.clients.bpf.libbpf import last_reason
from steward.clients.bpf.loader import ProbeSettings


def test_the_reason_is_the_end_of_the_verifiers_log() -> None:
    messages = """libbpf: prog 'sched_switch': BPF program load failed: Permission denied
libbpf: prog 'sched_switch': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
6: (79) r7 = *(u64 *)(r1 +0)
dereference of modified ctx ptr R1 off=96 disallowed
processed 7 insns (limit 1000000) max_states_per_insn 0
-- END PROG LOAD LOG --
libbpf: failed to load object
"""
    assert last_reason(messages).endswith("dereference of modified ctx ptr R1 off=96 disallowed")
    assert "processed" not in last_reason(messages)


def test_without_a_log_the_reason_is_the_first_message() -> None:
    messages = "libbpf: prog 'x': failed to find kernel BTF type ID of 'y': -3\nlibbpf: more\n"

    assert last_reason(messages) == "prog 'x': failed to find kernel BTF type ID of 'y': -3"
    assert last_reason("") == ""


def test_settings_are_laid_out_as_in_c() -> None:
    settings = ProbeSettings(slots=256, stripes=8, controller=-1, switch_has_state=True)

    assert struct.unpack("<IIiI", settings.config) == (256, 7, -1, 1)
    assert settings.max_entries["rows"] == 2048
