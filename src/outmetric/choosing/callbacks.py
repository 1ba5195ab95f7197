"""How a search tells what it is doing: scikit-learn's callbacks, functions, and a line on stderr."""

from __future__ import annotations

from typing import Any

from outmetric.foundation import announce

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has none."""

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


class Progress:
    """Tells scikit-learn's callbacks, where there are any, and people who asked."""

    def __init__(self, search: Any, tasks: int, *, verbose: Any) -> None:
        self.search, self.tasks, self.verbose, self.done = search, tasks, verbose, 0
        self.context = None
        if hasattr(search, "_init_callback_context"):
            self.context = search._init_callback_context(max_subtasks=tasks).call_on_fit_task_begin(estimator=search)

    def advance(self) -> None:
        self.done += 1
        if self.context is not None:
            task = self.context.subcontext(task_name="kernel and fold")
            task.call_on_fit_task_begin(estimator=self.search)
            task.call_on_fit_task_end(estimator=self.search)
        if callable(self.verbose):
            self.verbose(self.done, self.tasks, "kernels and folds scored")
        elif self.verbose:
            end = "\n" if self.done == self.tasks else ""
            announce("MetricSearchCV", f"{self.done} of {self.tasks} kernels and folds scored", again=True, end=end)

    def end(self) -> None:
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.search)
