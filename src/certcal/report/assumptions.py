"""What a guarantee from noise draws rests on, in one place: on every page, and the table of docs/certificates.md."""

ASSUMPTIONS = (
    (
        "The generator",
        "Its random words are assumed uniform, and independent between draws and inputs. It is the pseudorandom "
        "generator Philox, addressed by (seed, input, draw). The seed must not be chosen by results, nor the network "
        "made for the seed: who gets a model from strangers takes a seed that they could not know. That the noise made "
        "of words is Gaussian is not assumed: it is drawn by integers, its law is known, and every limit is widened by "
        "its distance from a Gaussian.",
    ),
    (
        "Rounding of the noise",
        "Not assumed away: inputs and noise are rounded to a grid on which float32 sums are exact, and every R > 0 is "
        "certified at R + √d · step. R = 0 is about the input itself. Inputs are float32: a double is read as "
        "the nearest one, and R is measured from there. Evidence of earlier versions lacks the grid, or "
        "normals of a known law; there it is assumed that the network does not read its input from low bits or from "
        "the pattern of the noise.",
    ),
    (
        "Rounding inside the network",
        "The certified function is the network as it was run: in its precision, on its kind of device. In another "
        "precision, or with other kernels (compiled, or for another shape of batch), it is another function; a run on "
        "a GPU that goes on may differ in this from its beginning.",
    ),
    (
        "Independence",
        "Draws of an input are independent, given the input. The claim for the set needs independence between inputs "
        "too; without it use Markov's inequality. The population bound assumes that inputs are independent draws from "
        "the population.",
    ),
    (
        "Looks",
        "Not assumed within a store: draws may be added at any time, for any reason, and all reports made from it hold "
        "together with probability 1 − α per input. A new folder with the same seed holds the same draws, and counts "
        "as another report. For the population, a stopping rule must judge each input by its own draws alone.",
    ),
    (
        "One report",
        "α, δ, the seed, n0, the method and σ are fixed before results are seen. A choice among several seeds, methods "
        "or models by their results is not covered, nor are draws made anew with another n and without the store: "
        "divide α and δ by the number of reports to choose from.",
    ),
    (
        "Arithmetic of the certificate",
        "Not assumed. Limits, radii and worst cases are rounded outward, down to the printed digit.",
    ),
    (
        "The model",
        "Any function of one input. That its answers do not change with the rest of the batch is tried on eight "
        "inputs of the data, to a thousandth. Nothing is assumed of its smoothness, its training or its accuracy.",
    ),
)


def assumptions_table() -> str:
    """The rows as a table in Markdown."""
    return "\n".join(["| | |", "|---|---|", *(f"| **{name}** | {text} |" for name, text in ASSUMPTIONS)])
