"""A script as a process of its own: started, watched, controlled, ended."""
