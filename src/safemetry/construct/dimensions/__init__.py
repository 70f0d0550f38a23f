"""Whether one dimension explains responses: models, losses, the verdict and what it rests on."""
