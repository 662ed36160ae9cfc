"""ADMM's half of the paper's Algorithm 2: bin assignments that go on while somebody else moves the inputs."""

from dataclasses import dataclass

from torch import Tensor

from certcal.types import FloatArray
from certcal.worstcase.admm import Program, State, initialise, settle_assignment, updated_assignment
from certcal.worstcase.problem import WorstCaseProblem
from certcal.worstcase.settings import AdmmSettings


@dataclass(eq=False)
class Assignments:
    """ADMM's assignment of confidences to bins, which takes one step for each of the inputs'. Paper: Alg. 2."""

    program: Program
    state: State
    settings: AdmmSettings

    @classmethod
    def even(cls, problem: WorstCaseProblem, confidence: FloatArray, settings: AdmmSettings) -> "Assignments":
        """Alg. 2, t = 1: a = 1 / M, duals 0; the problem says which bins each input can reach (K), and c."""
        return cls(*initialise(problem, confidence, settings), settings)

    def pushes(self, confidence: Tensor) -> Tensor:
        """Which way each confidence goes to raise ‖E(z)' a‖_1 at a^(t−1), shape (n,); and on to a^(t).

        That is the sign of −Σ_m s_m a_{n,m}.
        """
        spread = confidence.to(self.state.z).expand_as(self.state.z)  # h: z^(t−1), the same in every bin
        state = self.state._replace(z=spread)
        sign = (state.a * (self.program.correct - state.z)).sum(dim=2, keepdim=True).sign()
        push = -(sign * state.a).sum(dim=1).sign().squeeze(0)
        a = updated_assignment(self.program, state, self.settings)  # a^(t), from z^(t−1)
        self.state = settle_assignment(self.program, state._replace(a=a), self.settings)  # q_1, q_2, λ and ρ
        return push
