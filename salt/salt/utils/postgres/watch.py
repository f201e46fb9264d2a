"""
Time limits of connections to PostgreSQL
"""

import os
import threading
import time


class Watch:
    """
    Ends connections whose server takes a query and never answers, and closes
    those that are idle

    libpq has no limit for an answer: as long as the kernel of a server
    acknowledges, as it does for a process that is stopped or waits for its disk,
    and as a pooler does that is paused, neither keepalives nor tcp_user_timeout
    end a connection.
    """

    def __init__(self):
        self._is_running = False
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self):
        """
        Start anew: a forked process has no threads, and no thread to release a
        lock that one of them held
        """
        self._lock = threading.Lock()
        self._ends = {}
        self._is_running = False

    def begin(self, connection, seconds, act):
        """
        Call a function unless :meth:`end` is called in so many seconds
        """
        with self._lock:
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, daemon=True).start()
            self._ends[connection] = (time.monotonic() + seconds, act)

    def end(self, connection):
        """
        Return whether the time of a connection is not over
        """
        with self._lock:
            return self._ends.pop(connection, None) is not None

    def _run(self):
        # A condition to wait for would take longer than a small query
        while True:
            time.sleep(0.5)
            with self._lock:
                for connection, (end, act) in list(self._ends.items()):
                    if end < time.monotonic():
                        del self._ends[connection]
                        act()
                if not self._ends:
                    self._is_running = False
                    return


WATCH = Watch()
