"""
Who has had how much from the master of late.
"""

#: What somebody has had halves in so many seconds.
_HALF_LIFE = 60

#: Of more than so many, those are forgotten who have had next to nothing.
_MANY = 1000


class Shares:
    """
    What each flow has had, a user for instance.
    """

    def __init__(self):
        # {flow: (points, as of when)}
        self._had = {}

    def had(self, flow, now):
        """
        Return the points that a flow has had of late.
        """
        points, then = self._had.get(flow, (0, now))
        return points * 0.5 ** ((now - then) / _HALF_LIFE)

    def give(self, flow, points, now):
        """
        A flow gets points, or gives them back.
        """
        self._had[flow] = (max(0, self.had(flow, now) + points), now)
        if len(self._had) > _MANY:
            self._had = {
                name: had for name, had in self._had.items() if self.had(name, now) > 1
            }
