"""Training classifiers of style: labelled rows, calibration, and the card."""
