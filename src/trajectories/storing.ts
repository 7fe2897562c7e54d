import { Fault } from '../model/faults.js';
import { describeError } from '../platform/errors.js';

/** Runs one storage operation. Any error becomes a `StoreFault` that names the operation. */
export async function storing<T>(what: string, operation: () => T | Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (cause) {
    if (cause instanceof Fault) throw cause;
    throw new Fault({ type: 'StoreFault', message: `${what}: ${describeError(cause)}`, cause });
  }
}
