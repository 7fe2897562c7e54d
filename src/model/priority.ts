import { createHash } from 'node:crypto';
import type { BatchRequest } from './batch-request.js';

/** How the tasks of a batch or a stream are ordered beside those of others, in Temporal's terms. */
export interface TaskPriority {
  /** 1 comes first. */
  priorityKey: number;
  /** Who shares equally with others. */
  fairnessKey: string;
  /** With twice the weight of others it gets twice as much. */
  fairnessWeight: number;
}

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
