// How a query says that a run is running, so that it may walk the partial index on runs that are not over. A row whose
// status is damaged is in that index too: only the search for strays looks at it.

/** Of the record `r` of a run. Literally the condition of the index `UnendedRuns`, which SQLite compares as a text. */
export const isUnended = `r.number = 0 AND r.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')`;

/** Of the record `r` of a run, and named like the state. */
export const isRunning = `${isUnended} AND r.status = 'running'`;
