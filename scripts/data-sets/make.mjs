// Writes the data sets that the compressed tier is measured on: one value a line, the same every time.
// See README.md for what to install first. node make.mjs OUT_DIR [PYTHON_HTML_DIR]
import { createRequire } from 'node:module';
import fs from 'node:fs';
import path from 'node:path';

const [out, html] = process.argv.slice(2);
if (!out) throw new Error('usage: node make.mjs OUT_DIR [PYTHON_HTML_DIR]');
const require = createRequire(path.join(process.cwd(), 'package.json'));
fs.mkdirSync(out, { recursive: true });

// A shuffle that is the same everywhere (xorshift; Fisher and Yates).
function shuffled(list) {
  let state = 42n;
  const next = (below) => {
    state ^= (state << 13n) & 0xffffffffffffffffn;
    state ^= state >> 7n;
    state ^= (state << 17n) & 0xffffffffffffffffn;
    return Number(state % BigInt(below));
  };
  for (let at = list.length - 1; at > 0; at--) {
    const other = next(at + 1);
    [list[at], list[other]] = [list[other], list[at]];
  }
  return list;
}

function write(name, values) {
  const lines = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  const file = fs.createWriteStream(path.join(out, `${name}.jsonl`));
  for (const line of lines) file.write(line + '\n');
  file.end();
  const mean = lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0) / lines.length;
  console.log(`${name}: ${lines.length} values, ${mean.toFixed(0)} bytes in the mean`);
}

const { faker } = await import(require.resolve('@faker-js/faker'));
const many = (count, make) => Array.from({ length: count }, (_, id) => make(id));
const user200 = (id) => ({
  id, firstName: faker.person.firstName(), lastName: faker.person.lastName(), email: faker.internet.email(),
  city: faker.location.city(), registered: faker.date.past().toISOString(),
});
const user300 = (id) => ({
  ...user200(id), phone: faker.phone.number(), country: faker.location.country(), active: faker.datatype.boolean(),
});
const user500 = (id) => ({
  ...user300(id), street: faker.location.streetAddress(), zip: faker.location.zipCode(),
  company: faker.company.name(), website: faker.internet.url(), birthdate: faker.date.birthdate().toISOString(),
  job: faker.person.jobTitle(), balance: faker.finance.amount(), bio: faker.person.bio(),
});
const product = (id) => ({
  id, name: faker.commerce.productName(), price: faker.commerce.price(),
  department: faker.commerce.department(), material: faker.commerce.productMaterial(),
  description: faker.commerce.productDescription(),
});
const order = () => ({
  orderId: faker.string.numeric(8), product: faker.commerce.productName(), price: faker.commerce.price(),
  quantity: faker.number.int({ min: 1, max: 9 }), date: faker.date.past().toISOString(),
  status: faker.helpers.arrayElement(['paid', 'sent', 'open', 'returned']), sentTo: faker.location.streetAddress(),
});
const record = (id) => ({ ...user500(id), orders: many(6, order) });
for (const [name, count, make] of [
  ['user200', 60000, user200], ['user300', 60000, user300], ['user500', 60000, user500],
  ['product300', 60000, product], ['rec2k', 30000, record],
]) {
  faker.seed(42);
  faker.setDefaultRefDate('2026-01-01T00:00:00.000Z');
  write(name, many(count, make));
}

const read = (file) => JSON.parse(fs.readFileSync(path.join('node_modules', file), 'utf8'));
write('movies400', shuffled(read('vega-datasets/data/movies.json')));
const languages = fs.readdirSync('node_modules/emojibase-data').sort();
const emojis = languages.flatMap((language) => {
  const file = `emojibase-data/${language}/data.json`;
  return fs.existsSync(path.join('node_modules', file)) ? read(file) : [];
});
write('emoji_all', shuffled(emojis));

// Pages of Python's documentation, cut every 2000 bytes from byte 2000 on; each line is a JSON string.
if (html) {
  const pages = fs.readdirSync(html, { recursive: true }).filter((name) => name.endsWith('.html')).sort();
  const pieces = pages.flatMap((name) => {
    const text = fs.readFileSync(path.join(html, name)).subarray(2000).toString('latin1');
    return many(Math.floor(text.length / 2000), (at) => text.slice(at * 2000, (at + 1) * 2000));
  });
  write('html2k', shuffled(pieces).map((piece) => JSON.stringify(piece)));
}
