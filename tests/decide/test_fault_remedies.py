"""What should be done about faults."""

from __future__ import annotations

from typing import Any

import pytest

from steward.decide.health.fault_remedies import AGAIN, incidents
from steward.model.faults import OPINIONS, SXIDS, XIDS, Episode, FaultKind, Incident, Remedy

DAY_S = 86_400.0


def episode(code: int | None = 79, *, t_s: float = 0.0, **more: Any) -> Episode:
    given = {
        "id": f"f-{code}-{t_s}",
        "kind": FaultKind.XID,
        "node": "n1",
        "device": "0000:06:00",
        "until_s": t_s,
        "count": 1,
    } | more
    return Episode(code=code, t_s=t_s, **given)


def remedy(*episodes: Episode) -> Remedy:
    return incidents(episodes)[0].remedy


def test_each_code_has_the_remedy_of_the_catalogue() -> None:
    assert remedy(episode(79)) is Remedy.REBOOT_NODE
    assert remedy(episode(13)) is Remedy.RESTART_JOB
    assert remedy(episode(9999)) is Remedy.WATCH


def test_what_follows_from_another_is_never_fatal() -> None:
    first, second = incidents([episode(79), episode(119, cause="f-79-0.0")])

    assert (first.primary, first.fatal) == (True, True)
    assert (second.primary, second.fatal, second.remedy) == (False, False, Remedy.FOLLOW)


def test_a_storm_of_teardowns_takes_no_gpu_out_of_service() -> None:
    storm = [episode(45, t_s=10.0 * i) for i in range(500)]

    assert not any(each.fatal for each in incidents(storm))


def test_the_driver_itself_may_ask_for_more() -> None:
    asked = episode(154, cause="f-94-0.0", detail={"recovery": "0x2"})
    ignored = episode(154, cause="f-94-0.0", detail={"recovery": "0x0"})

    assert remedy(episode(94), asked) is Remedy.REBOOT_NODE
    assert remedy(episode(94), ignored) is Remedy.RESTART_JOB
    assert remedy(episode(154, detail={"recovery": "0x1"})) is Remedy.RESET_GPU
    assert remedy(episode(154)) is Remedy.NOTHING


def test_memory_without_spare_rows_is_replaced() -> None:
    assert remedy(episode(64)) is Remedy.REPLACE
    assert remedy(episode(48), episode(64, cause="f-48-0.0")) is Remedy.REPLACE
    assert remedy(episode(48), episode(63, cause="f-48-0.0")) is Remedy.RESET_GPU


def test_a_detail_without_its_memory_error_still_resets_the_gpu() -> None:
    assert remedy(episode(171)) is Remedy.RESET_GPU


@pytest.mark.parametrize(("fatal", "wanted"), [(True, Remedy.RESET_GPU), (False, Remedy.WATCH)])
def test_lines_of_new_links_say_by_themselves_whether_they_are_fatal(
    fatal: bool,  # noqa: FBT001
    wanted: Remedy,
) -> None:
    assert remedy(episode(145, fatal=fatal)) is wanted


def test_switches_have_their_own_codes() -> None:
    def switch(code: int | None, fatal: bool | None) -> Remedy:  # noqa: FBT001
        return remedy(episode(code, kind=FaultKind.SXID, fatal=fatal))

    assert switch(23_001, None) is Remedy.REBOOT_NODE
    assert switch(20_034, True) is Remedy.RESET_GPU  # noqa: FBT003
    assert switch(20_034, False) is Remedy.WATCH  # noqa: FBT003
    assert switch(None, True) is Remedy.WATCH  # noqa: FBT003


def test_other_kinds_have_remedies_too() -> None:
    def other(kind: FaultKind, fatal: bool | None = None) -> Remedy:  # noqa: FBT001
        return remedy(episode(None, kind=kind, fatal=fatal))

    assert other(FaultKind.LOST) is Remedy.REBOOT_NODE
    assert other(FaultKind.HOST_MEMORY, True) is Remedy.DIAGNOSE  # noqa: FBT003
    assert other(FaultKind.HOST_MEMORY, False) is Remedy.WATCH  # noqa: FBT003
    assert other(FaultKind.PCIE, True) is Remedy.WATCH  # noqa: FBT003
    assert remedy(episode(79), episode(None, kind=FaultKind.PCIE, cause="f-79-0.0")) is (
        Remedy.REBOOT_NODE
    )


def last(*episodes: Episode) -> Incident:
    return incidents(episodes)[-1]


def test_what_comes_again_and_again_is_diagnosed() -> None:
    often = [episode(119, t_s=DAY_S * i) for i in range(AGAIN)]

    assert last(*often[:-1]).remedy is Remedy.RESET_GPU
    assert last(*often).remedy is Remedy.DIAGNOSE
    assert "did not help" in last(*often).why
    assert last(*often[:-1], episode(119, t_s=90 * DAY_S)).remedy is Remedy.RESET_GPU


def test_faults_of_programs_on_one_spot_are_hardly_the_programs() -> None:
    one = [episode(13, t_s=DAY_S * i, spots=frozenset({"gpc1/tpc2/sm0"})) for i in range(AGAIN)]
    many = [episode(13, t_s=DAY_S * i, spots=frozenset({f"gpc{i}"})) for i in range(AGAIN)]
    mild = [episode(63, t_s=DAY_S * i) for i in range(AGAIN)]

    assert last(*one).remedy is Remedy.DIAGNOSE
    assert last(*many).remedy is Remedy.RESTART_JOB
    assert last(*mild).remedy is Remedy.WATCH


def test_tables_of_codes_hold_together() -> None:
    assert set(OPINIONS) <= set(XIDS)
    assert {Remedy.WATCH, Remedy.RESET_GPU, Remedy.REBOOT_NODE} == set(SXIDS.values())
    assert [each.rank for each in Remedy] == sorted(each.rank for each in Remedy)


@pytest.mark.parametrize(
    ("state", "remedy_"),
    [
        ("remap-failed", Remedy.REPLACE),
        ("remap-pending", Remedy.RESET_GPU),
        ("hw-slowdown", Remedy.WATCH),
        ("asks-reboot", Remedy.REBOOT_NODE),
    ],
)
def test_what_a_gpu_says_of_itself_has_its_remedy(state: str, remedy_: Remedy) -> None:
    found = episode(None, kind=FaultKind.GPU_STATE, detail={"state": state}, text="so")

    assert remedy(found) is remedy_


def test_a_silence_takes_no_gpu_out_of_service() -> None:
    found = incidents([episode(None, kind=FaultKind.SILENCE, text="1,620 nodes", device="")])[0]

    assert (found.remedy, found.fatal) == (Remedy.WATCH, False)
    assert "1,620" in found.meaning


def test_registers_of_nvlink_5_count_for_more_than_the_word_in_the_line() -> None:
    hard = {"unit": "SAW_MVB", "registers": "0x00000021 0x00000002"}
    asks = {"unit": "RLW_REMAP", "registers": "0x00000082 0x00000001"}

    assert remedy(episode(144, fatal=False, detail=hard)) is Remedy.RESET_GPU
    assert remedy(episode(145, fatal=False, detail=asks)) is Remedy.WATCH
    assert remedy(episode(145, fatal=True)) is Remedy.RESET_GPU
