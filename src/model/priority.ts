import { createHash } from 'node:crypto';
import type { BatchRequest } from './batch-request.js';
import type { TaskPriority } from './workflow-safe/priority.js';

/** Temporal's limit, in bytes; ids are ASCII. */
const LONGEST_KEY = 64;
const DIGEST = 16;

/** Each id has a share of its own. */
export const priorityOf = (
  id: string,
  { priority, share }: Pick<BatchRequest, 'priority' | 'share'>,
): TaskPriority => ({
  priorityKey: priority,
  fairnessKey: keyOf(id),
  fairnessWeight: share,
});

/** No id contains a tilde. */
function keyOf(id: string): string {
  if (id.length <= LONGEST_KEY) return id;
  const digest = createHash('sha256').update(id).digest('hex').slice(0, DIGEST);
  return `${id.slice(0, LONGEST_KEY - DIGEST - 1)}~${digest}`;
}
