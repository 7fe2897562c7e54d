/**
 * Upstream's names of the stamps on rows and results (`nemo_gym/global_config.py`, `rollout_collection.py` at 07d6b0d).
 */
export const TASK_INDEX = '_ng_task_index';
export const ROLLOUT_INDEX = '_ng_rollout_index';
/** How often the row failed before; present only if it did. */
export const ATTEMPT_INDEX = '_ng_attempt_index';
/** The row's own id, instead of `<task>-<rollout>`. */
export const ROLLOUT_ID = '_ng_rollout_id';
export const AGENT_REF = 'agent_ref';
export const SKILLS_REF = 'skills_ref';
/** Marks a result as a failure of this class, whose reward does not count. */
export const FAILURE_CLASS = '_ng_failure_class';
/** Marks a result that must not be written, and whose row is played again. */
export const NO_PERSIST = '_ng_no_persist';
/** Marks a failure whose row is not played again. */
export const FAILURE_TERMINAL = '_ng_failure_terminal';
