"""What has to be said of a map wherever its numbers are shown: that it was taught by too little."""

from certcal.errors import several
from certcal.evaluation import ConfidenceMap
from certcal.recalibration.maps import AnyMap, IdentityMap, temperature_facts
from certcal.recalibration.score_maps import TemperedMap

FEW = 8  # certified inputs, right or wrong ones, below which a map is hardly learned


def caution_about(own: ConfidenceMap | None) -> str:
    """That the map is little more than a guess, where it is; nothing of other maps.

    Few wrong or few right predictions taught it, or most parts of the inputs teach none.
    """
    if own is None or own.kind == "identity":
        return ""
    wrong, certified = own.about.get("wrong", []), own.about.get("certified", [])
    fewest = {
        "wrong": min(wrong, default=FEW),
        "right": min((total - bad for bad, total in zip(wrong, certified, strict=False)), default=FEW),
    }
    told = [
        f"was taught by only {several(count, f'{kind} prediction')} among the certified inputs"
        for kind, count in fewest.items()
        if count < FEW
    ]
    splits, without = own.about.get("splits", 1), own.about.get("splits_without_map", 0)
    if 2 * without > splits:
        told.append(f"would not be there in {without} of {splits} splits")
    return f"The map {' and '.join(told)}: take it for a guess." if told else ""


def hangs_on_one(own: AnyMap) -> bool:
    """Whether a single input decides if there is a map: the only wrong one, or the only right one, at some radius."""
    counts = zip(own.about.get("certified", []), own.about.get("wrong", []), strict=True)
    return any(min(wrong, certified - wrong) == 1 for certified, wrong in counts)


def unless_one_decides(own: AnyMap) -> AnyMap:
    """The map, or the identity where a single input decides if there is one: most parts of the inputs teach none."""
    if not hangs_on_one(own):
        return own
    reason = "A single prediction, the only wrong or the only right one among the certified inputs, would decide."
    same = not isinstance(own, TemperedMap) and own.divisor is not None  # what confidences stand at without a map
    return IdentityMap(about={"reason": reason} | (temperature_facts(own.divisor) if same and own.divisor else {}))
