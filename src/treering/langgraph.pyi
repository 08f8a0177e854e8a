from treering.frameworks.langgraph.saver import TreeringSaver as TreeringSaver
from treering.frameworks.langgraph.store import TreeringStore as TreeringStore
