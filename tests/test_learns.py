"""The quickstart learns: its run file, shortened, gains ten points of held-out success."""
