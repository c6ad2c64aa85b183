"""What programs that process topics share: the App, its run loop, named parts, the clock, ``explain``. Private."""
