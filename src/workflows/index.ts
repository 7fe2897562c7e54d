/** The workflow types, as the Temporal CLI and schedulers name them. */
export { rolloutBatch } from './batch.js';
export { rolloutGroup } from './group.js';
export { policy } from './policy.js';
export { rollout } from './rollout.js';
export { rolloutSlice } from './slice.js';
export { rolloutStream } from './stream.js';
