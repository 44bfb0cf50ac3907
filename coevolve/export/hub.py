"""Repositories of the Hugging Face Hub, to which a user pushes an exported folder.

Nothing is sent unless the user names a repository and is logged in. A new repository is private.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from huggingface_hub import HfApi

from coevolve.base.foreign import boundary
from coevolve.models.model_folder import hub_base
from protocols.config import PolicyConfig
from protocols.errors import RunError


@dataclass(frozen=True)
class HubRepository:
    """One repository, which may be missing."""

    name: str
    """``OWNER/NAME``"""

    kind: Literal["model", "dataset"]

    def check_login(self) -> None:
        """Raise RunError unless the user is logged in; asks the Hub."""
        with boundary(
            RunError,
            f"--push {self.name}: needs a login at {HfApi().endpoint}",
            "; log in with `hf auth login`, or set HF_TOKEN to a token that may write",
        ):
            HfApi().whoami()

    def push(self, folder: Path, message: str) -> str:
        """Upload the folder as one commit; return the repository's URL.

        Files of the same names are replaced, others stay. Raises RunError if the Hub refuses.
        """
        again = f"hf upload {self.name} {folder} --repo-type {self.kind}"
        with boundary(
            RunError,
            f"{folder} is complete, but cannot be pushed to {self.name}",
            f"; to push it again: {again}",
        ):
            hub = HfApi()
            made = hub.create_repo(self.name, repo_type=self.kind, private=True, exist_ok=True)
            hub.upload_folder(
                repo_id=self.name, repo_type=self.kind, folder_path=folder, commit_message=message
            )
            return str(made)


def check_base(policy: PolicyConfig) -> None:
    """Raise RunError if nobody else can load an adapter of the policy, whose base is a folder."""
    if not hub_base(policy):
        raise RunError(
            f"an adapter for policy.model {policy.model}, which is no model of Hugging Face, is of "
            "no use elsewhere, and names this machine's folder; push `merged` instead"
        )
