"""The bytes of Salt's protocol: keys, messages, signing in, and the frames of each transport; no input or output."""
