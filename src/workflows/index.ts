/** The workflow types, by the names that the Temporal CLI and schedulers use. */
export { rolloutBatch } from './batch.js';
export { rolloutGroup } from './group.js';
export { inputs } from './inputs.js';
export { policy } from './policy.js';
export { rollout } from './rollout.js';
export { rolloutSlice } from './slice.js';
export { rolloutStream } from './stream.js';
/** For every other type. */
export { unknownType as default } from './unknown-type.js';
