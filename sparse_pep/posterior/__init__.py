"""What a posterior answers: local predictions and draws of functions."""
