"""Line buffers: the window that slides over a frame, its schedule and its addresses."""
