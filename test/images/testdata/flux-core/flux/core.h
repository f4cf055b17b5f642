/* The header of flux-core that the headers of flux-sched include: below the prefix, not in the source tree. */
