import type { JSX } from 'preact';
import { useId } from 'preact/hooks';
import type { Address } from './address.js';
import { go } from './hooks.js';

/** Puts another run, or rollout, beside this one. */
export function CompareWith({
  address,
  choices,
}: {
  address: Partial<Address>;
  choices: readonly string[];
}): JSX.Element {
  const list = useId();
  return (
    <form
      class="compare-with"
      onSubmit={(event) => {
        event.preventDefault();
        const other = new FormData(event.currentTarget).get('other');
        if (typeof other === 'string' && other.trim() !== '')
          go({ ...address, options: { with: other.trim() } });
      }}
    >
      <label>
        Compare with <input name="other" list={list} placeholder={choices[0] ?? ''} />
      </label>
      <datalist id={list}>
        {choices.map((choice) => (
          <option key={choice} value={choice} />
        ))}
      </datalist>{' '}
      <button>Compare</button>
    </form>
  );
}
