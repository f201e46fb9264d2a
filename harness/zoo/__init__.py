"""The zoo: one small check for each of some bugs of Salt under load, run on the releases that have it or not."""
