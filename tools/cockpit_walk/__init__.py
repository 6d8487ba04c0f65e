"""A walk through the cockpit with real key presses and mouse clicks, station by station, with a picture of each.

    python -m tools.cockpit_walk --size 1280x800 --theme dark --hands keys --out DIR

An X server, a window manager, a daemon on a data root that is thrown away, and the real cockpit. The hands are
``xdotool``: nothing is done to the cockpit that a person could not do. The eyes are a probe that the walk puts into
the cockpit's process (:mod:`tools.cockpit_walk.probe`): it answers what can be seen and changes nothing.
"""
