"""A plan: what a behaviour has decided for one job of one minion.

A plan is a value. It says when the job begins, what it returns and what comes next, so running it needs no director.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evil_minions.behaviour.reply import Reply
from evil_minions.behaviour.sequel import Sequel
from evil_minions.samples.rows import DecisionRow

if TYPE_CHECKING:
    from evil_minions.behaviour.delay import Delay
    from evil_minions.behaviour.rule import Rule

_NORMAL: Final = Reply()
_STAY: Final = Sequel()


@dataclass(frozen=True, slots=True)
class Plan:
    """The rule that a job gets, None if the minion does what a healthy one does.

    `behaviour` is the name of the minion's behaviour, empty for a minion without one.
    """

    behaviour: str = ""
    rule: Rule | None = None

    @property
    def delay(self) -> Delay | None:
        """The time until the function begins; None means as long as on a real minion."""
        return self.rule.delay if self.rule else None

    @property
    def reply(self) -> Reply:
        """What is returned."""
        return self.rule.reply if self.rule else _NORMAL

    @property
    def sequel(self) -> Sequel:
        """What comes after the job."""
        return self.rule.sequel if self.rule else _STAY

    def decision(self, minion_id: str, what: str, seconds: float) -> DecisionRow:
        """Return the plan as it is written down; `what` is the job or the round of a timer, `seconds` the wait."""
        if self.rule is None:
            return DecisionRow(minion_id, what, self.behaviour, "", seconds, "", "")
        returns = str(self.rule.reply) if self.rule.every is None else ""
        return DecisionRow(minion_id, what, self.behaviour, self.rule.name, seconds, returns, str(self.rule.sequel))


HEALTHY: Final = Plan()
"""The plan of every job on a minion without a behaviour."""
