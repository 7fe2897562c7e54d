import { render } from 'preact';
import { App } from './app.js';
import { openSource } from './source.js';

const root = document.getElementById('page');
if (root === null) throw new Error('the page has no element with id "page"');
openSource(document).then(
  (source) => {
    render(<App source={source} />, root);
  },
  (error: unknown) => {
    render(<p role="alert">{String(error)}</p>, root);
  },
);
