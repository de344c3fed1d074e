"""The study server beside oTree and Potato, on the same task of 50 items in one run."""
