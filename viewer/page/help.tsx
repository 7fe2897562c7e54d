import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

const KEYS: [string, string][] = [
  ['j, k', 'next, previous: rollout of a list, turn of a rollout'],
  ['n, p', 'next, previous rollout of the list, while one is open'],
  ['arrows, Page, Home, End', 'in the list of rollouts, or in a token strip that has the focus'],
  ['Enter', 'open what has the focus'],
  ['/', 'the filter of a run'],
  ['r', 'raw text instead of Markdown, and back'],
  ['g', 'the group of this rollout'],
  ['u, Escape', 'up: from a rollout to its list'],
  ['?', 'this help'],
];

export function Help({ onClose }: { onClose: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button>Close</button>
      </form>
    </dialog>
  );
}
