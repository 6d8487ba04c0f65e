"""A small policy-gradient training in the manner of CleanRL's releases: argparse, one file, nothing of MOSAIC."""

# As people write such scripts: without types, and with the means of their time.
# mypy: ignore-errors
# ruff: noqa: PTH119, PTH123

import argparse
import os
import random
import time

import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim
from torch.utils.tensorboard import SummaryWriter


def as_switch(text):
    return text.lower() in ("1", "true", "yes")


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--exp-name", type=str, default=os.path.basename(__file__).rstrip(".py"), help="what to call it"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of everything")
    parser.add_argument("--env-id", type=str, default="CartPole-v1", help="the environment")
    parser.add_argument("--total-timesteps", type=int, default=2000, help="steps in all")
    parser.add_argument("--learning-rate", type=float, default=2.5e-3, help="how far an update goes")
    parser.add_argument("--anneal-lr", type=lambda x: bool(as_switch(x)), default=True, nargs="?", const=True)
    parser.add_argument("--num-steps", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=16, help="width of the network")
    parser.add_argument("--poison-at", type=int, default=0, help="the update whose loss is no number; 0: none")
    parser.add_argument("--slow", type=float, default=0.0, help="seconds that each environment step takes besides")
    parser.add_argument("--mark", type=str, default="", help="a file that is made in the third step")
    args = parser.parse_args()
    args.batch_size = args.num_steps
    return args


class Agent(nn.Module):
    def __init__(self, inputs, hidden, actions):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, actions))

    def forward(self, x):
        return torch.distributions.Categorical(logits=self.actor(x))


if __name__ == "__main__":
    args = parse_args()
    writer = SummaryWriter(f"runs/{args.env_id}__{args.exp_name}__{args.seed}__{int(time.time())}")
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    envs = gym.vector.SyncVectorEnv([lambda: gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))])
    assert isinstance(envs.single_action_space, gym.spaces.Discrete), "only discrete action space is supported"
    agent = Agent(envs.single_observation_space.shape[0], args.hidden, envs.single_action_space.n)
    optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate)
    log_scale = torch.zeros(1, requires_grad=True)
    scale_optimizer = optim.Adam([log_scale], lr=1e-3)

    stored = torch.zeros((args.num_steps, 4))
    rewards = torch.zeros(args.num_steps)
    global_step = 0
    start_time = time.time()
    next_obs, _ = envs.reset(seed=args.seed)
    envs.single_action_space.seed(args.seed)
    num_updates = args.total_timesteps // args.num_steps

    for update in range(1, num_updates + 1):
        if args.anneal_lr:
            optimizer.param_groups[0]["lr"] = (1.0 - (update - 1.0) / num_updates) * args.learning_rate
        log_probs = []
        for step in range(args.num_steps):
            global_step += 1
            stored[step] = torch.Tensor(next_obs)[0]
            chances = agent(torch.Tensor(next_obs))
            action = chances.sample() if random.random() > 0.1 else torch.tensor([envs.single_action_space.sample()])
            log_probs.append(chances.log_prob(action)[0])
            next_obs, reward, _, _, infos = envs.step(action.numpy())
            rewards[step] = float(reward[0])
            time.sleep(args.slow)
            if args.mark and step == 3:
                open(args.mark, "w").close()
            if "episode" in infos:
                writer.add_scalar("charts/episodic_return", infos["episode"]["r"][0], global_step)
        noise = float(np.random.rand())
        loss = -(torch.stack(log_probs) * (rewards + noise)).mean() * log_scale.exp() + 0.01 * stored.pow(2).mean()
        if update == args.poison_at:
            loss = loss * float("nan")
        optimizer.zero_grad()
        scale_optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scale_optimizer.step()
        writer.add_scalar("losses/policy_loss", loss, global_step)
        writer.add_scalar("losses/explained_variance", float("nan"), global_step)
        writer.add_scalar("charts/SPS", int(global_step / (time.time() - start_time)), global_step)
    envs.close()
    writer.close()
    print(f"trained for {global_step} steps")
