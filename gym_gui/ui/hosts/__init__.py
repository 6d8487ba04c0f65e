"""The Hosts screen: machines that runs can go to, how they are doing, and what runs where."""
