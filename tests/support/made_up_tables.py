"""Tables of the reproduction page about models that are made up."""

from experiments.pack_table import Table

from certcal.studies import Entry, ReferenceRow, paper_table


class MadeUp(Table):
    """A table whose rows no evidence stands behind."""

    def certified(self, name, radius):
        return "400 (14)"


def made_up(*models):
    """A table of models (name, seed, CA, CCE, CCE after a map, rise of the Brier score, chosen) at R = 0.5."""
    table = object.__new__(MadeUp)
    table.data, table.paper = "fashion-mnist", paper_table("fashion-mnist")
    table.entries, table.rows, table.inputs, table.draws, table.model = {}, [], {}, {}, {}
    table.sigma = {}
    for name, seed, accuracy, error, mapped, rise, chosen in models:
        method = "Brier-ACT" if "tuned" in name else "AT"
        table.entries[name] = Entry(name=name, data=table.data, network="lenet", method=method, radii=(0.5,),
                                    sha256="", train_seed=seed, chosen=chosen, train_seconds=60.0)  # fmt: skip
        table.inputs[name], table.draws[name], table.model[name] = 500, "100,000", name
        table.sigma[name] = 0.25
        scores = {"ece": 0.1, "brier": 0.1, "auroc": 0.8, "certified_brier": error / 2}
        for track, value in (("paper", error), ("plain", error), ("recalibrated", mapped)):
            told = {"brier_all": 0.1 + rise, "brier_all_before": 0.1, "deviation": 0.01}
            table.rows.append(ReferenceRow(name, track, 0.5, accuracy, value, **scores, **told))
    return table
