//! What lies over the screen and takes the keys.
