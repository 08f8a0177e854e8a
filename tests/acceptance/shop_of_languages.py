"""A small shop written in many languages, in which files import, call and test each other."""

FILES = {
    "src/shop/__init__.py": '"""A shop."""\n\nfrom shop.cart import total\nfrom .tax import *\n',
    "src/shop/cart.py": (
        '"""Carts."""\n\n\nclass Cart:\n    """What somebody buys."""\n\n    def add(self, price):\n'
        '        """Add a price."""\n        self.prices.append(self.checked_price(price))\n\n'
        '    def checked_price(self, price):\n        """Refuse a price below nothing."""\n'
        '        return max(price, 0)\n\n\ndef total(cart):\n    """Add the prices up."""\n'
        "    return sum(cart.prices)\n"
    ),
    "src/shop/tax.py": (
        '"""Taxes."""\n\nimport json\nfrom . import cart\nfrom .cart import Cart as Basket\n\n\n'
        'def taxed(basket: Basket) -> int:\n    """Tell the total with its tax; `cart.total` has none."""\n'
        "    return cart.total(basket) * 119 // 100\n\n\ndef logged(basket):\n"
        '    """Write the taxed total."""\n    return json.dumps(taxed(basket))\n'
    ),
    "src/shop/logging.py": ('"""Not the logging that all import."""\n\n\ndef getLogger(name):\n    return name\n'),
    "src/shop/report.py": (
        'import logging\n\nfrom shop import taxed, total\n\n\ndef report(cart):\n    """Report."""\n'
        '    logging.getLogger("x")\n    return total(cart), taxed(cart)\n'
    ),
    "tests/test_cart.py": (
        "from shop.cart import Cart, total\n\n\ndef test_an_empty_cart_costs_nothing():\n"
        "    assert total(Cart()) == 0\n"
    ),
    "web/package.json": '{"name": "@shop/web", "version": "1.0.0"}\n',
    "web/src/compose.ts": (
        "import type { Context } from './context'\nimport { run as go } from '@/lib/run'\n\n"
        "/** Puts handlers together. */\nexport const compose = (handlers: Context[]): Context => {\n"
        "  return go(handlers)\n}\n"
    ),
    "web/src/context.ts": "export interface Context {\n  get(key: string): unknown\n}\n",
    "web/src/lib/run.ts": "export function run(handlers: unknown[]) {\n  return handlers[0]\n}\n",
    "web/src/index.ts": "export { compose } from './compose'\nexport * from './context'\n",
    "web/src/app.tsx": "import { compose } from '.'\n\nexport const App = () => {\n  return compose([])\n}\n",
    "web/src/compose.test.ts": (
        "import { compose } from './compose.js'\n\ntest('composes', () => {\n  compose([])\n})\n"
    ),
    "desk/package.json": '{"name": "desk"}\n',
    "desk/main.js": (
        "const { compose } = require('@shop/web')\n\nfunction main() {\n  return compose([])\n}\n\n"
        "module.exports = main\n"
    ),
    "go.mod": "module example.org/shop\n\ngo 1.22\n",
    "money/money.go": (
        "package money\n\n// Round rounds.\nfunc Round(cents int) int {\n\treturn cents / 100 * 100\n}\n"
    ),
    "bill/bill.go": (
        'package bill\n\nimport "example.org/shop/money"\n\n// Total adds up.\n'
        "func Total(cents int) int {\n\treturn money.Round(cents)\n}\n"
    ),
    "bill/print.go": (
        'package bill\n\nimport "fmt"\n\n// Print prints.\nfunc Print(cents int) {\n\tfmt.Println(Total(cents))\n}\n'
    ),
    "till/Cargo.toml": '[package]\nname = "coin-till"\nversion = "0.1.0"\n',
    "till/src/lib.rs": "pub mod coin;\npub mod drawer;\n\npub use coin::Coin;\n",
    "till/src/coin.rs": (
        "/// A coin.\npub struct Coin(u32);\n\nimpl Coin {\n    /// Strikes one.\n"
        "    pub fn strike(value: u32) -> Self {\n        Coin(value)\n    }\n}\n"
    ),
    "till/src/drawer.rs": (
        "use crate::coin::{self, Coin};\n\n/// Fills it.\npub fn fill() -> Coin {\n    Coin::strike(5)\n}\n"
    ),
    "purse/src/main.rs": "use coin_till::drawer::fill;\n\nfn main() {\n    fill();\n}\n",
    "java/com/shop/Cart.java": (
        "package com.shop;\n\npublic class Cart {\n    public int total() {\n        return 0;\n    }\n}\n"
    ),
    "java/com/shop/Item.java": (
        "package com.shop;\n\npublic class Item {\n    private final Cart cart = new Cart();\n}\n"
    ),
    "java/com/shop/ui/View.java": (
        "package com.shop.ui;\n\nimport com.shop.Cart;\n\npublic class View {\n    int show() {\n"
        "        return new Cart().total();\n    }\n}\n"
    ),
    "c/list.h": "int list_push(int value);\n",
    "c/list.c": '#include "list.h"\n\nint list_push(int value) {\n    return value;\n}\n',
    "c/main.c": '#include <stdio.h>\n#include "list.h"\n\nint main(void) {\n    return list_push(1);\n}\n',
    "ruby/lib/ledger.rb": "class Ledger\n  def self.open(path)\n    path\n  end\nend\n",
    "ruby/bin/run.rb": "require_relative '../lib/ledger'\n\ndef run\n  Ledger.open('x')\nend\n",
    "php/Model/User.php": (
        "<?php\nnamespace App\\Model;\n\nclass User {\n    public function name() { return ''; }\n}\n"
    ),
    "php/show.php": "<?php\nuse App\\Model\\User;\n\nfunction show() {\n    return new User();\n}\n",
    "cs/Repo.cs": "namespace App;\n\npublic class Repo {\n    public int Count() { return 0; }\n}\n",
    "cs/Page.cs": "namespace App;\n\npublic class Page {\n    Repo repo = new Repo();\n}\n",
    "sh/lib.sh": "greet() {\n  echo hi\n}\n",
    "sh/run.sh": "#!/bin/sh\n. ./lib.sh\n\nmain() {\n  greet\n}\n",
}

QUESTIONS = (
    "src/shop/cart.py",
    "src/shop/tax.py",
    "total",
    "Cart.checked_price",
    "taxed",
    "src/shop/logging.py",
    "src/shop/report.py",
    "web/src/compose.ts",
    "compose",
    "desk/main.js",
    "money/money.go",
    "bill/bill.go",
    "bill/print.go",
    "till/src/coin.rs",
    "till/src/drawer.rs",
    "purse/src/main.rs",
    "java/com/shop/Cart.java",
    "java/com/shop/ui/View.java",
    "c/list.h",
    "list_push",
    "ruby/lib/ledger.rb",
    "php/Model/User.php",
    "cs/Repo.cs",
    "sh/lib.sh",
    "sh/run.sh",
)
