import type { ForeignObject } from '../../src/model/foreign-object.js';
import type {
  Environment,
  ExactEnvironment,
  Metadata,
  TurnAnswer,
} from '../../src/environments/environment.js';

export const context = { idempotency_key: 'b/0-0/0', signal: new AbortController().signal };

/** One question, one answer. */
export const stepOnce = (
  environment: Environment | ExactEnvironment,
  { response, info }: { response: string; info: Metadata },
): Promise<TurnAnswer<ForeignObject>> => {
  const log = [
    { role: 'user', content: 'q' },
    { role: 'assistant', content: response },
  ];
  return environment.step({ message_log: log, metadata: info }, context);
};

/** Upstream's tensors are float32; functions are compared more closely. */
export const isNear = (got: unknown, { value, relative }: { value: number; relative: number }) =>
  typeof got === 'number' && Math.abs(got - value) <= relative * Math.max(Math.abs(value), 1e-12);
