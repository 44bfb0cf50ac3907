"""Accounts of a club, with amounts of money and names of members."""

from typing import Any


class Ledger:
    """The accounts of a club."""

    def reset(self, world: dict[str, list[dict[str, Any]]]) -> None:
        self.accounts = {each["owner"]: dict(each) for each in world["accounts"]}

    def balance(self, owner: str) -> float:
        """Return what a member has."""
        return self.accounts[owner]["balance"]

    def pay(self, payer: str, payee: str, amount: float) -> str:
        """Move money from one member to another."""
        if amount <= 0 or payer == payee or self.accounts[payer]["balance"] < amount:
            raise ValueError("refused")
        self.accounts[payee]["balance"] += amount
        self.accounts[payer]["balance"] -= amount
        return "paid"

    def tag(self, owner: str, labels: list[str]) -> str:
        """Give an account labels."""
        self.accounts[owner]["labels"] = labels
        return "tagged"

    def state(self) -> dict[str, Any]:
        """Return all accounts."""
        return self.accounts
