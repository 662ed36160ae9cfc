"""What of the paper `certcal reproduce` draws again, and for what of it the pack is enough."""

from certcal.studies import EXHIBITS, Exhibit, paper_table
from experiments.pack_table import Table, markdown, stem_of

BRIEFLY = ((", or a reference pack", ""), (" or a reference pack", ""), (" or evidence files, one for each σ", ""),
           (", an evidence file", ""), ("a folder of `certcal reproduce`", "a study"))  # fmt: skip


def exhibits(found: list[Table]) -> str:
    """The names under which `certcal reproduce` draws what the paper shows."""
    lines = [
        [f"`{one.name}`", one.place, one.shows, _briefly(one.source) or "nothing", _stored(one, found)]
        for one in EXHIBITS.values()
    ]
    told = (
        "`certcal reproduce NAME --from reference --into FOLDER` draws those again that the pack has the data for. "
        "`--from` also takes evidence files in place of runs, one run for each σ, and studies: folders of `certcal "
        "reproduce`. What is drawn from nothing takes no `--from`."
    )
    return f"{told}\n\n{markdown(['name', 'in the paper', 'shows', 'drawn from', 'in the pack'], lines, 5)}"


def _stored(exhibit: Exhibit, found: list[Table]) -> str:
    """Whether the pack is enough to draw an exhibit; in part, where it has none of the models that this is about."""
    own = next((one for one in found if exhibit.data in ("", one.data)), None)  # some show any data
    if not exhibit.source or own is None or "reference pack" not in exhibit.source:
        return "no" if exhibit.source else "—"
    names = {own.short(stem_of(one)) for one in own.models}
    theirs = {one.lower() for one in paper_table(own.data, "baselines") or ()}
    lacks = {
        "table-ablation": "Finetuned AT" not in {one.method for one in own.models.values()},
        f"table-baselines-{own.data}": not names & theirs,
    }
    return "in part" if lacks.get(exhibit.name) else "yes"


def _briefly(source: str) -> str:
    """What an exhibit is drawn from, in words of the sentence above the table."""
    for long, short in BRIEFLY:
        source = source.replace(long, short)
    return source
