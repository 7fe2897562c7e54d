import { workflowInfo } from '@temporalio/workflow';
import { failWith } from './ending.js';
import { quote } from '../model/workflow-safe/fields.js';

const KNOWN = 'rolloutBatch, rolloutStream, rollout or policy';

/** For a type that is none of these. Without it, the workflow task would fail again and again, and nobody would say so. */
export function unknownType(): Promise<never> {
  const message = `workflow type: expected ${KNOWN}, got ${quote(workflowInfo().workflowType)}`;
  return Promise.reject(failWith({ type: 'InvalidBatchRequest', message }));
}
