"""Settings of what looks at a run from outside."""

from typing import Annotated

import msgspec

from protocols.numbers import NonNegative

TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
"""The trackers that need no code of one's own."""

PATH = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"

TrackerName = Annotated[
    str,
    msgspec.Meta(
        pattern=rf"^({'|'.join(TRACKERS)}|{PATH})\Z",
        description=f"{', '.join(TRACKERS)}, or the import path `package.module:Class`",
    ),
]


class TrackersConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the run's metrics also go.

    Each tracker is a process of its own that reads the journal and sends each line of
    ``metrics.jsonl`` once, also after a restart. A tracker that fails is tried again, and the
    training does not wait for it. The files of trackers are in ``trackers/`` of the run's folder.
    """

    use: tuple[TrackerName, ...] = ()
    """``tensorboard``, ``wandb``, ``mlflow``, ``trackio``, or the import path of a class of your
    own, also of callbacks (`coevolve.followers.interface.Tracker`). Each built-in one needs its
    extra, for example ``pip install 'coevolve[wandb]'``. Keys and servers come from the tracker's
    own variables and files, for example ``WANDB_API_KEY``, ``MLFLOW_TRACKING_URI`` or
    ``TRACKIO_SPACE_ID``. Without them MLflow and trackio write into the run's folder."""

    project: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")] = (
        "coevolve"
    )
    """W&B's and trackio's project, and MLflow's experiment."""

    offline: bool = False
    """Whether trackers only write into the run's folder, whatever their variables say. ``wandb
    sync`` sends W&B's files later."""

    rollouts: NonNegative = 16
    """Rows of the table of rollouts that is sent with each evaluation: rollouts of the last step, a
    few of each group. 0 sends no tables."""

    checkpoints: bool = False
    """Whether the checkpoints of ``learner.checkpoint_every`` are sent as artifacts. They hold the
    optimizer's state as well, so they are large."""


class PrometheusConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run's numbers at ``/metrics``, for Prometheus to collect.

    ``pip install 'coevolve[prometheus]'``. ``coevolve docs grafana.json`` prints a dashboard, and
    ``coevolve docs alerts.yaml`` rules for alerts.
    """

    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """Port of the launcher's machine; 0 serves nothing."""

    host: Annotated[str, msgspec.Meta(min_length=1)] = "127.0.0.1"
    """Address of an interface of the launcher's machine, by default its loopback. ``0.0.0.0`` lets
    everyone ask who reaches the machine; nothing protects it."""
