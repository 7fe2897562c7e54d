import type { Refusal } from './request/refusals.js';

export type Standing = ReturnType<typeof createStanding>;

/** Whether a life answers, and why it may have no verdict. */
export function createStanding({ overstay_ms }: { overstay_ms: number }) {
  const faults = new Map<string, string>();
  let ending: Refusal | null = null;
  let misfit: string | null = null;
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  let late: () => void = () => undefined;
  let breaks: (error: unknown) => void = () => undefined;
  const broken = new Promise<unknown>((resolve) => (breaks = resolve));
  const overstays = new Promise<void>((resolve) => (late = resolve));
  /** A call was answered: the program goes on in what it may do. */
  const answered = (): void => {
    clearTimeout(timer);
    timer = undefined;
  };
  return {
    /** Why it answers no more; null: it does. */
    ending: () => ending,
    /** That its rollout has ended (410) is final; another attempt may answer behind anything else. */
    ends: (why: Refusal): void => {
      if (ending?.status !== 410) ending = why;
    },
    /** Resolves with the fault when its journal is lost or cannot be written. */
    broken,
    breaks,
    /** Resolves when its program has reached a limit, and went on without an answered call for `overstay_ms`. */
    overstays,
    reachedLimit: (): void => {
      if (!isOver) timer ??= setTimeout(late, overstay_ms).unref();
    },
    answered,
    /** A fault of ours, by the key of the request that met it; null: that was answered later. */
    fails: (key: string, message: string | null): void => {
      if (message === null) faults.delete(key);
      else faults.set(key, message);
    },
    /** Why it has no verdict: a call ended in a fault of ours, and was not answered later; null: none did. */
    ourFault: (): string | null => [...faults.values()].at(-1) ?? null,
    /** null: a call was answered since. */
    misfits: (message: string | null): void => {
      misfit = message;
    },
    /** A request that the program never gets answered, such as an unknown route: begun again, it would ask the same. */
    misfit: () => misfit,
    leave: (): void => {
      isOver = true;
      answered();
    },
  };
}
