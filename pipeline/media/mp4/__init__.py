"""Long MP4 files, of whose index no more than is needed is held in memory (ISO/IEC 14496-12)."""
