"""A training whose loop is in a function, with an optimiser of its own."""

# mypy: ignore-errors

import torch
from torch import nn


def main(turns=400):
    torch.manual_seed(1)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    turn = 0
    while turn < turns:
        turn += 1
        loss = model(torch.ones(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
