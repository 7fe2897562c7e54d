import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';

/**
 * The same store for a process that is killed before its change number `change`, from 0: this change and all later ones
 * fail. Deletions count one by one.
 */
export function dyingStore(
  store: TrajectoryStore,
  change: number,
): { store: TrajectoryStore; hasDied: () => boolean } {
  let made = 0;
  let hasDied = false;
  const changing = async <T>(make: () => Promise<T>): Promise<T> => {
    hasDied ||= made >= change;
    if (hasDied) throw new Error('killed');
    made += 1;
    return await make();
  };
  const { facts } = store;
  return {
    hasDied: () => hasDied,
    store: {
      ...store,
      facts: {
        ...facts,
        put: (fact) => changing(() => facts.put(fact)),
        forget: async (series, numbers) => {
          for (const n of numbers) await changing(() => facts.forget(series, [n]));
        },
      },
      forgetJournals: async ({ rows, ...journals }) => {
        for (const row of rows)
          await changing(() => store.forgetJournals({ ...journals, rows: [row] }));
      },
      stepOutputs: (place) => {
        const outputs = store.stepOutputs(place);
        return {
          ...outputs,
          openPart: (part, resume) => changing(() => outputs.openPart(part, resume)),
          join: (parts) => changing(() => outputs.join(parts)),
          putGroupTable: (lines) => changing(() => outputs.putGroupTable(lines)),
          putMetrics: (result) => changing(() => outputs.putMetrics(result)),
          forget: () => changing(() => outputs.forget()),
        };
      },
    },
  };
}
