import { Fault, THE_STORE } from '../model/faults.js';
import { describeError } from '../platform/errors.js';
import { whyNoSpace } from '../platform/files.js';

/** Runs one storage operation. Any error becomes a `StoreFault` that names the operation. */
export async function storing<T>(what: string, operation: () => T | Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (cause) {
    throw await storeFault(what, cause);
  }
}

/** The same for what is read line by line. */
export async function* storingEach(
  what: string,
  read: () => AsyncIterable<string>,
): AsyncGenerator<string> {
  try {
    yield* read();
  } catch (cause) {
    throw await storeFault(what, cause);
  }
}

async function storeFault(what: string, cause: unknown): Promise<Fault> {
  if (cause instanceof Fault) return cause;
  const why = await whyNoSpace(cause);
  const message = `${what}: ${describeError(cause)}${why === null ? '' : `: ${why}`}`;
  return new Fault({ type: 'StoreFault', message, at: THE_STORE, cause });
}
