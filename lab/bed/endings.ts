export interface Endings {
  add: (ending: () => unknown) => void;
  /** The last one first; throws the first error after it has tried all. */
  end: () => Promise<void>;
}

/** What has been started is ended, whatever fails. */
export function createEndings(): Endings {
  const endings: (() => unknown)[] = [];
  return {
    add: (ending) => {
      endings.push(ending);
    },
    end: async () => {
      const problems: unknown[] = [];
      for (const ending of endings.splice(0).reverse())
        try {
          await ending();
        } catch (error) {
          problems.push(error);
        }
      if (problems.length > 0) throw problems[0];
    },
  };
}
