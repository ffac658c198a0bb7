"""What is drawn of a watched process: its tiers, its hot set, its moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steward.service.pages.charts import HUES, line_chart
from steward.service.pages.drawings import tile
from steward.service.pages.markup import Markup, join, tag

__all__ = [
    "how_to_watch",
    "idle_bars",
    "memory_figures",
    "memory_head",
    "tier_bar",
    "tier_chart",
    "tier_series",
]

OLD_S = 10.0
NEAR, FAR = HUES[0], HUES[1]
Status = Mapping[str, Any]


def how_to_watch() -> Markup:
    """Say how a process comes onto this page."""
    return tag(
        "p",
        "Start ",
        tag("code", "steward memory watch PID"),
        " with the same store. It shows which blocks of the process are used and where they lie; ",
        "with ",
        tag("code", "--move"),
        " it moves cold ones to swap, and hot ones back.",
    )


def memory_head(status: Status, now_s: float) -> Markup:
    """Show which process it is, who decides, and how old this is."""
    name = f"{status.get('name', '')} ({status.get('pid')})"
    policy = f"policy {status.get('policy', '')}, autonomy {status.get('autonomy', '')}"
    problem = str(status.get("problem") or "")
    old_s = now_s - float(status.get("t_s", 0.0))
    if not problem and old_s > OLD_S:
        problem = f"not watched any more: what is shown is {old_s:.0f} s old"
    notice = tag("div", tag("b", problem), class_="st-notice") if problem else None
    title = tag("h1", name, class_="st-title")
    about = tag("span", policy, class_="st-quiet")
    return join(tag("div", title, about, class_="st-split st-gateway-head"), notice)


def memory_figures(status: Status) -> Markup:
    """Show the main figures of a process."""
    saved_s = _number(status, "estimated_saved_s")
    measured_s = _number(status, "measured_saved_s")
    hot, far = int(_number(status, "hot_blocks")), int(_number(status, "hot_far_blocks"))
    promoted, demoted = (
        int(_number(status, "promoted_blocks")),
        int(_number(status, "demoted_blocks")),
    )
    tracked = _number(status, "tracked_share")
    return join(
        tile("Near", _size(status, "near_bytes"), f"of {_limit(status)} allowed"),
        tile("Far", _size(status, "far_bytes"), "in the far tier"),
        tile("Hot set", f"{hot:,}", f"blocks used at the last look, {far:,} of them far"),
        tile("Moves", f"{promoted + demoted:,}", f"{promoted:,} nearer, {demoted:,} farther"),
        tile(
            "Stall saved",
            f"{saved_s:+.3f} s",
            f"estimated; {measured_s:+.3f} s by major faults before and after",
            "bad" if saved_s < 0 else "",
        ),
        tile("Writes told", f"{tracked:.0%}", "of its blocks; others by mapping only"),
    )


def tier_bar(status: Status) -> Markup:
    """Show near and far memory as parts of one bar."""
    near, far = _number(status, "near_bytes"), _number(status, "far_bytes")
    whole = near + far
    if whole <= 0:
        return tag("p", "Nothing of it is in memory or in swap.")
    parts = [("near", near, NEAR), ("far", far, FAR)]
    bar = [
        tag(
            "i",
            style=f"display:inline-block;height:18px;width:{100 * size / whole:.2f}%;"
            f"background:{colour}",
            title=f"{name}: {size / 2**20:,.0f} MiB",
        )
        for name, size, colour in parts
    ]
    words = ", ".join(f"{name} {size / whole:.0%}" for name, size, _ in parts)
    pinned = int(_number(status, "pinned_blocks"))
    text = (
        f"{words}; {pinned:,} blocks pinned, {_number(status, 'huge_pages_share'):.0%} huge pages"
    )
    return join(tag("div", *bar, role="img", aria_label=words), tag("p", text))


def idle_bars(status: Status) -> Markup:
    """Show how many near and far blocks were last used how many looks ago."""
    rows = [each for each in status.get("idle") or () if len(each) == 3 and each[1] + each[2]]
    if not rows:
        return tag("p", "Nothing was seen yet.")
    most = max(near + far for _, near, far in rows)
    lines = [
        tag(
            "tr",
            tag("td", _since(int(low))),
            tag("td", _pieces(near, far, most), style="width:60%"),
            tag("td", f"{int(near):,} near, {int(far):,} far", class_="st-number"),
        )
        for low, near, far in rows
    ]
    return tag("table", tag("tbody", *lines), class_="st-table")


def tier_chart() -> dict[str, Any]:
    """Return the chart of near and far memory, without figures yet."""
    options = line_chart()
    options["yAxis"] |= {"min": 0}
    return options


def tier_series(status: Status) -> list[dict[str, Any]]:
    """Return one line for each tier."""
    points = status.get("history") or ()
    return [
        {
            "type": "line",
            "name": name,
            "showSymbol": False,
            "color": colour,
            "data": [[1000 * point[0], round(point[at] / 2**20, 1)] for point in points],
        }
        for name, at, colour in (("near", 1, NEAR), ("far", 2, FAR))
    ]


def _pieces(near: float, far: float, most: float) -> Markup:
    return join(
        *(
            tag(
                "i",
                style=f"display:inline-block;height:10px;width:{100 * size / most:.2f}%;"
                f"background:{colour}",
            )
            for size, colour in ((near, NEAR), (far, FAR))
        )
    )


def _since(low: int) -> str:
    if low < 2:
        return ("at the last look", "one look ago")[low]
    return f"{low:,} to {2 * low - 1:,} looks ago"


def _limit(status: Status) -> str:
    limit = _number(status, "near_limit_bytes")
    return _size(status, "near_limit_bytes") if limit < 2**49 else "all it wants"


def _size(status: Status, name: str) -> str:
    return f"{_number(status, name) / 2**20:,.0f} MiB"


def _number(status: Status, name: str) -> float:
    value = status.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0
