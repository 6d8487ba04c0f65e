"""A campaign against a real daemon in the manner of Jepsen: clients work, a seeded nemesis breaks things, and a checker
proves from the record of every operation that no run was lost, doubled or mislabelled and no step is missing."""
