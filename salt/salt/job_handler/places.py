"""
How much the queue takes: places in it are kept for jobs that have no job id yet.
"""

import collections

#: How long a place is kept, in seconds.
RESERVED_SECONDS = 30


class Places:
    """
    :param JobQueue queue: the jobs that wait
    :param int most: how many may wait
    :param int most_bytes: what they may take, or None
    """

    def __init__(self, queue, most, most_bytes=None):
        self.queue = queue
        self.most = most
        self.most_bytes = most_bytes
        # {submission: (until when, bytes)}
        self._reserved = {}
        # when the last jobs left the queue
        self._left = collections.deque(maxlen=32)

    def __len__(self):
        return len(self._reserved)

    def reserve(self, submission, now, size=0):
        """
        Keep a place.

        :param int size: how many bytes the job takes
        :return: the sentence that says why there is none, or None
        """
        for old, (until, _) in list(self._reserved.items()):
            if until > now:
                break
            del self._reserved[old]
        full = self._full(size)
        if full is None:
            self._reserved[submission] = now + RESERVED_SECONDS, size
        return full

    def _full(self, size):
        """
        Return why there is no place for a job of so many bytes, or None.
        """
        waiting, coming = len(self.queue), len(self._reserved)
        if waiting + coming >= self.most:
            more = f" and {coming} on their way into its queue" if coming else ""
            return f"The master has {waiting} jobs waiting{more}, which is all it takes"
        size += self.queue.bytes + sum(each for _, each in self._reserved.values())
        if self.most_bytes is not None and size > self.most_bytes:
            return (
                f"With this one the jobs that wait would take {size} bytes, and"
                f" max_queue_bytes is {self.most_bytes}"
            )
        return None

    def unreserve(self, submission):
        """
        Give a reserved place up.
        """
        self._reserved.pop(submission, None)

    def left(self, now):
        """
        A job has left the queue.
        """
        self._left.append(now)

    def retry_after(self, now):
        """
        Return in how many seconds a place should be free, as far as the last jobs that
        left tell.
        """
        if len(self._left) < 2:
            return 10
        seconds = (now - self._left[0]) / len(self._left)
        return int(min(60, max(1, seconds * 2)))
